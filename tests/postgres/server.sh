#!/bin/sh
# A PostgreSQL server of its own for the tests, from Debian's package postgresql:
#   server.sh start DIR    makes a server in DIR, reachable through a socket there, prints its URL
#   server.sh stop DIR     ends it; DIR can be removed then
# As root everything is done as the user postgres, because servers refuse to run as root.
set -eu

usage() { echo "usage: $0 start|stop DIR" >&2; exit 2; }
[ $# -eq 2 ] || usage
action=$1
mkdir -p "$2"
directory=$(cd "$2" && pwd)

tools=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$tools" ] || { echo "error: no PostgreSQL (on Debian and Ubuntu: apt install postgresql)" >&2; exit 1; }

as_server() {
  if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

cd / # the user postgres may not see where we are
case $action in
  start)
    [ "$(id -u)" != 0 ] || chown postgres "$directory"
    as_server "$tools/initdb" --pgdata "$directory/data" --username postgres --auth trust --no-sync \
      --locale C --encoding UTF8 >"$directory.initdb.log" 2>&1 \
      || { cat "$directory.initdb.log" >&2; exit 1; }
    rm -f "$directory.initdb.log"
    # No network: only those who may enter DIR reach the server.
    as_server "$tools/pg_ctl" --pgdata "$directory/data" --log "$directory/log" --wait --silent \
      --options "-c listen_addresses='' -c unix_socket_directories='$directory'" start >&2
    echo "postgresql+psycopg://postgres@/postgres?host=$directory"
    ;;
  stop)
    as_server "$tools/pg_ctl" --pgdata "$directory/data" --mode immediate --wait --silent stop >&2
    ;;
  *) usage ;;
esac
