import { useEffect, useState } from 'preact/hooks';

const SHOWN_MS = 8_000;

/**
 * A message that is shown for a while and announced by screen readers.
 *
 * @param count distinguishes equal messages
 */
export function Announcement({ text, count }: { readonly text: string; readonly count: number }) {
  const [shown, setShown] = useState('');
  useEffect(() => {
    if (count === 0) return undefined;
    setShown(text);
    const timer = setTimeout(() => setShown(''), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [text, count]);
  return (
    <div class="announcement" role="status" aria-live="polite">
      {shown !== '' && <p key={count}>{shown}</p>}
    </div>
  );
}
