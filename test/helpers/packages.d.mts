/** Installs the packages of a folder's lock file, if they are missing, and returns where. */
export function needNpmPackages(folder: string): string;
