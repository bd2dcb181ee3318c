#!/bin/sh
# What the official image does with its variables, for a PostgreSQL of Debian: a database with a user and a password, made
# once, then the server in the foreground.
set -eu
chown -R postgres "$PGDATA"
chmod 700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
    chown postgres /tmp/password
    setpriv --reuid postgres --regid postgres --clear-groups initdb --username "$POSTGRES_USER" --pwfile /tmp/password \
        --auth-host scram-sha-256 --auth-local trust --encoding UTF8 --locale C --no-sync
    rm /tmp/password
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    setpriv --reuid postgres --regid postgres --clear-groups pg_ctl --wait --options "-c listen_addresses='' -k /tmp" start
    setpriv --reuid postgres --regid postgres --clear-groups createdb --host /tmp --username "$POSTGRES_USER" "$POSTGRES_DB"
    setpriv --reuid postgres --regid postgres --clear-groups pg_ctl --wait stop
fi
exec setpriv --reuid postgres --regid postgres --clear-groups postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
