/** The path of the program that tests start. It is made anew when the build is another one. */
export function programOf(): string;
