-- Times are microseconds since 1970, ids are text, JSON is text: both engines sort and compare them alike.

create table agents (
    id text primary key,
    newest_version bigint not null,
    created_at bigint not null,
    archived_at bigint
);
create index agents_by_age on agents (created_at, id);

-- A version never changes: an update of an agent adds one.
create table agent_versions (
    agent_id text not null references agents (id) on delete cascade,
    version bigint not null,
    name text not null,
    description text,
    model text not null,
    system text,
    tools text not null,
    metadata text not null,
    endpoint text,
    updated_at bigint not null,
    primary key (agent_id, version)
);

create table environments (
    id text primary key,
    name text not null,
    description text not null,
    config text not null,
    metadata text not null,
    scope text,
    created_at bigint not null,
    updated_at bigint not null,
    archived_at bigint
);
create index environments_by_age on environments (created_at, id);
-- Two replicas cannot give one name to two living environments.
create unique index environments_by_living_name on environments (name) where archived_at is null;

create table files (
    id text primary key,
    filename text not null,
    mime_type text not null,
    extension text not null,
    size_bytes bigint not null,
    sha256 text not null,
    source text not null,
    source_status text not null,
    source_error text,
    bucket_key text,
    media text,
    description_status text,
    description text,
    description_error text,
    description_attempts bigint not null,
    metadata text not null,
    expires_at bigint,
    created_at bigint not null,
    updated_at bigint not null
);
create index files_by_age on files (created_at, id);
create index files_by_description on files (description_status, updated_at);

create table sessions (
    id text primary key,
    -- The state's name, for filters; the whole of it is in `state_detail`.
    state text not null,
    state_detail text not null,
    title text,
    metadata text not null,
    agent_id text not null,
    agent_version bigint not null,
    agent text not null,
    mode text not null,
    environment_id text not null,
    video_id text not null,
    max_turns bigint not null,
    sandbox text not null,
    usage text not null,
    active_micros bigint not null,
    run_began_at bigint,
    fence bigint not null,
    interrupted_fence bigint not null,
    last_seq bigint not null,
    run_start_seq bigint not null,
    read_seq bigint not null,
    message_count bigint not null,
    pending_actions text not null,
    last_event_at bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    archived_at bigint
);
create index sessions_by_age on sessions (created_at, id);
create index sessions_by_agent on sessions (agent_id, created_at, id);
create index sessions_by_state on sessions (state, created_at, id);

create table resources (
    session_id text not null references sessions (id) on delete cascade,
    id text not null,
    file_id text not null,
    mount_path text not null,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (session_id, id)
);
create index resources_by_age on resources (session_id, created_at, id);

-- Numbers count from 1 in each session, without gaps.
create table events (
    session_id text not null references sessions (id) on delete cascade,
    seq bigint not null,
    id text not null,
    at bigint not null,
    type text not null,
    body text not null,
    primary key (session_id, seq)
);
create unique index events_by_id on events (session_id, id);

-- Positions count from 0 in each session, without gaps.
create table messages (
    session_id text not null references sessions (id) on delete cascade,
    position bigint not null,
    run_id text,
    body text not null,
    primary key (session_id, position)
);
