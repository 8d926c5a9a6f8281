/** Makes sure that another version of Node is there; returns the folder that its `node` is in. */
export function needNode(version: string): string;
