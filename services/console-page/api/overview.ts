import { createContext } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";
import type { Overview } from "./flow.ts";
import { type Answer, useAnswer } from "./use-answer.ts";

const NOTHING: Answer<Overview> = {
  data: undefined,
  isCurrent: false,
  refused: undefined,
  at: undefined,
  isOld: () => false,
  reload() {},
};

const CurrentOverview = createContext(NOTHING);
export const OverviewProvider = CurrentOverview.Provider;

/**
 * Returns the current state of the deployment. All components that show a part of it share one request, which
 * `useLiveOverview` sends.
 */
export const useOverview = (): Answer<Overview> => useContext(CurrentOverview);

export function useLiveOverview(): Answer<Overview> {
  return useAnswer("api/v1/overview", {}, { everyMs: 3000, live: "overview" });
}

/** Calls `listener` when the number of failed calls has changed. */
export function useWhenFailedChange(listener: () => void): void {
  const { data } = useOverview();
  const now = data && failedIn(data);
  const before = useRef(now);
  useEffect(() => {
    const isChange = before.current !== undefined && before.current !== now;
    before.current = now;
    if (isChange) listener();
  }, [now, listener]);
}

/** Returns the number of failed calls, which wait for an operator. */
export function failedIn({ queues }: Overview): number {
  return queues.reduce((sum, { failed }) => sum + failed, 0);
}
