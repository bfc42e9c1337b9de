import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Overview } from "./flow.ts";
import { type Answer, useAnswer } from "./use-answer.ts";

const NOTHING: Answer<Overview> = {
  ...{ data: undefined, isCurrent: false, refused: undefined, at: undefined },
  reload() {},
};

const CurrentOverview = createContext(NOTHING);
export const OverviewProvider = CurrentOverview.Provider;

/** How the deployment is now, asked for once for all that shows some of it. */
export const useOverview = (): Answer<Overview> => useContext(CurrentOverview);

export function useLiveOverview(): Answer<Overview> {
  return useAnswer<Overview>("api/v1/overview", {}, { everyMs: 3000, live: "overview" });
}

/** How many calls have failed and wait for somebody. */
export function failedIn({ queues }: Overview): number {
  return queues.reduce((sum, { failed }) => sum + failed, 0);
}
