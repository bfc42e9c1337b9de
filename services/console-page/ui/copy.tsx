import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icons.tsx";

/** Returns whether the text was copied within the last 1.5 seconds, and a function that copies it to the clipboard. */
export function useCopy(text: string): [boolean, () => Promise<void>] {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Browsers offer no clipboard without https. The user can still select and copy the text by hand.
    }
  };
  return [isCopied, copy];
}

/** Shows an id or hash. A click copies the whole text, even if only a part is shown. */
export function Copyable({ text, shown = text }: { text: string; shown?: string }) {
  const [isCopied, copy] = useCopy(text);
  return (
    <span class="copy">
      <span class="mono" title={text}>
        {shown}
      </span>
      <button type="button" class="icon-button" onClick={copy} aria-label={`Copy ${text}`}>
        <Icon name={isCopied ? "check" : "copy"} />
      </button>
      <span class="hidden" role="status">
        {isCopied ? "Copied" : ""}
      </span>
    </span>
  );
}

/** Shortens a long id to its beginning and end: `c_1a2b3c…9f8e`. */
export function shortened(text: string, first = 10, last = 6): string {
  return text.length <= first + last + 1 ? text : `${text.slice(0, first)}…${text.slice(-last)}`;
}
