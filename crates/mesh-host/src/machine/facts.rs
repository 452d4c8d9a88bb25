//! What the machine is: operating system, processors, memory, disks, addresses. Reads only.
