/** Bytes of records in one answer, and one record more. */
const MAX_ANSWER = 256 * 1024;

/**
 * A script that reads for each of its arguments and stops when its answer is large, so that no answer takes longer than
 * a command may. It returns how many it was through with, and what was added.
 *
 * @param each Lua that reads for `ARGV[i]` and calls `add` with texts
 */
export function readingMany(each: string): string {
  return `
local found, size, done = {}, 0, 0
local function add(text) found[#found + 1] = text size = size + #text end
for i = 2, #ARGV do
  if size > ${MAX_ANSWER} then break end
  ${each}
  done = done + 1
end
return {done, found}
`;
}
