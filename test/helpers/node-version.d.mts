/** Installs another version of Node if it is missing; returns the folder of its `node`. */
export function needNode(version: string): string;
