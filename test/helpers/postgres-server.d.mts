/** Whether Debian's package is installed. */
export function hasPostgres(): boolean;

/** How to start a server, and its URL. */
export interface PreparedPostgres {
  readonly program: string;
  readonly args: string[];
  readonly cwd: string;
  readonly url: string;
}

/** Creates a cluster in an empty folder that is accessible to other users. */
export function preparePostgres(folder: string, port: number, options: string[]): PreparedPostgres;

/** Copies the cluster of a server into the folder of another, as its standby. */
export function copyPostgres(folder: string, primary: number): void;

/** Sends a signal to a server and the processes of its connections. */
export function signalPostgres(pid: number, name: NodeJS.Signals): void;
