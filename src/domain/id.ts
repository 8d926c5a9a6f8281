/** The form of the ids of customers, users and services: they stand in paths, lists and header fields. */
export const ID = /^[A-Za-z0-9_-]{1,64}$/;
