import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Caller } from './types.js';

export interface App {
  readonly caller: Caller;
  /** Fetches the caller again. */
  readonly refresh: () => void;
  /** Shows a message for a while, and has screen readers announce it. */
  readonly announce: (message: string) => void;
}

/** Provided by the page to its components. */
export const AppContext = createContext<App | null>(null);

/** Returns the app, for components that are only rendered while a user is logged in. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error('this part of the page is outside the app');
  return app;
}
