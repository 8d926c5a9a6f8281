/** Writes the signing keys over those of the revision before. */
export const REPLACE_SIGNING_KEYS = `
local known = read(P('signing_keys'))
if (known and known.revision or 0) ~= cjson.decode(ARGV[2]).revision - 1 then return 0 end
redis.call('SET', P('signing_keys'), ARGV[2])
return 1
`;

export const REMOVE_SIGNING_KEYS = `return redis.call('DEL', P('signing_keys'))`;
