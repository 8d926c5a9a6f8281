/** Returns a number with its noun, which is plural unless the number is 1: `2 records`. */
export function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
