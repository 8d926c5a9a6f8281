/** Kinds of files that have a schema. Kept apart from the schemas, which are slow to load. */
export const SCHEMA_KINDS = ['config', 'directory', 'expect', 'shadow'] as const;

export type SchemaKind = (typeof SCHEMA_KINDS)[number];
