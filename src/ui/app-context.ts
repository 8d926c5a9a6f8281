import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Caller } from './types.js';

export interface App {
  readonly caller: Caller;
  /** Shows a message for a while, and has screen readers say it. */
  readonly announce: (message: string) => void;
}

/** Given by the whole page to its parts. */
export const AppContext = createContext<App | null>(null);

/** The whole page, for a part that is only there while somebody is logged in. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error('this part of the page is outside the app');
  return app;
}
