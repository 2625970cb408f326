-- What the extension uuid-ossp calls so, for a database that has neither that nor anything else of the name.
CREATE FUNCTION public.uuid_generate_v4()
RETURNS UUID
LANGUAGE sql VOLATILE
AS $$ SELECT pg_catalog.gen_random_uuid() $$;
