# Runs one throw-away PostgreSQL for one test and outlives that test just long enough to clean up.
#
# Standard input is a pipe held by the test alone. When it closes, because the test let go of the server or because
# the test was killed, the server is stopped and its directory removed. The server itself is started with a death
# signal, so that it does not outlive this script either.
directory=$1
shift

server=
start() {
    "$@" </dev/null >>"$directory/server.log" 2>&1 &
    server=$!
}
# SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, every session cut, recovery from the log at the next
# start. To a client and to the data it is a crash.
stop() {
    if [ -n "$server" ]; then
        kill -QUIT "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        server=
    fi
}

while read -r word port; do
    case $word in
    start)
        start "$@" -p "$port"
        echo started
        ;;
    stop)
        stop
        echo stopped
        ;;
    esac
done
stop
rm -rf "$directory"
