import { useState } from 'preact/hooks';
import { useApp } from '../app-context.js';

interface CopyButtonProps {
  readonly text: string;
  /** Name of the copied text, on the button and in the message. */
  readonly what: string;
}

/** Copies a text. Where the browser blocks this, the message says what to do instead. */
export function CopyButton({ text, what }: CopyButtonProps) {
  const { announce } = useApp();
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      announce(`The ${what} was copied.`);
    } catch {
      announce(`The browser blocked copying. Select the ${what} and copy it manually.`);
    }
  };
  return (
    <button type="button" class="button" onClick={() => void copy()}>
      {copied ? 'Copied' : 'Copy'}
      <span class="unseen"> the {what}</span>
    </button>
  );
}
