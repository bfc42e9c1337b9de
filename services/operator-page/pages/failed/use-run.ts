import { useEffect, useState } from "preact/hooks";
import { type Refused, toRefused } from "../../api/ask.ts";
import { isUnderWay, type Run, readRun } from "../../api/failed.ts";

const EVERY_MS = 400;

/** Follows a run until it has ended: tells `onChange` of each state that it is in. Says why, if it cannot be asked. */
export function useRun(run: Run | undefined, onChange: (run: Run) => void): Refused | undefined {
  const [refused, setRefused] = useState<Refused | undefined>();
  const { action, id } = run ?? {};
  const isOpen = run !== undefined && isUnderWay(run);

  useEffect(() => {
    if (action === undefined || id === undefined || !isOpen) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      try {
        onChange(await readRun({ action, id }, stop.signal));
        setRefused(undefined);
      } catch (error) {
        if (!stop.signal.aborted) setRefused(toRefused(error));
      }
      if (!stop.signal.aborted) timer = setTimeout(look, EVERY_MS);
    };
    timer = setTimeout(look, EVERY_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [action, id, isOpen, onChange]);

  return refused;
}
