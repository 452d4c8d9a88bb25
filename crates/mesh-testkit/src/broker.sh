# Runs one throw-away RabbitMQ for one test and outlives that test just long enough to clean up.
#
# Standard input is a pipe held by the test alone. When it closes, because the test let go of the broker or because
# the test was killed, everything is killed and the directory removed. Both programs are started with a death signal,
# so that they do not outlive this script either. The port mapper of Erlang is our own: the machine's would stay.
directory=$1
mapper_port=$2
server_program=$3

setpriv --pdeathsig=KILL -- epmd -port "$mapper_port" -address 127.0.0.1 </dev/null >/dev/null 2>&1 &
mapper=$!
server=
start() {
    # With this variable the script becomes the server instead of waiting for it: the pid is the server's.
    RABBITMQ_ALLOW_INPUT=1 setpriv --pdeathsig=KILL -- "$server_program" -noinput \
        </dev/null >>"$directory/server.log" 2>&1 &
    server=$!
}
stop() {
    if [ -n "$server" ]; then
        kill -KILL "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        server=
    fi
}

while read -r word; do
    case $word in
    start)
        start
        echo started
        ;;
    stop)
        stop
        echo stopped
        ;;
    esac
done
stop
kill -KILL "$mapper" 2>/dev/null
rm -rf "$directory"
