/** Files of which there is a schema. They stand apart from the schemas, which take long to load. */
export const SCHEMA_KINDS = ['config', 'directory', 'expect', 'shadow'] as const;

export type SchemaKind = (typeof SCHEMA_KINDS)[number];
