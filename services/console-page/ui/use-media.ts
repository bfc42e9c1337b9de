import { useEffect, useState } from "preact/hooks";

/** Returns whether a CSS media query matches the window, and renders the component again when this changes. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const follow = () => setHolds(list.matches);
    follow();
    list.addEventListener("change", follow);
    return () => list.removeEventListener("change", follow);
  }, [query]);
  return holds;
}

export const NARROW = "(max-width: 760px)";
