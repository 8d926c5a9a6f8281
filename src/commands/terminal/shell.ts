/** A value as one word of a POSIX shell, whatever it holds. */
export function shellWord(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

/** A parameter of a form as one word of a shell, for `curl -d`. */
export function formParameter(name: string, value: string): string {
  const encoded = encodeURIComponent(value.toWellFormed()).replaceAll('%40', '@').replaceAll("'", '%27');
  return `'${name}=${encoded}'`;
}
