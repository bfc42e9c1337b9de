import type { Answer } from "../api/use-answer.ts";
import { isTransient } from "../api/use-retry.ts";
import { asSentence, Notice } from "./notice.tsx";
import { ago, shortly, useNow } from "./time.tsx";

type Any = Answer<unknown>;

/**
 * Combines the states of several answers into one, for components that show a single state. Its time is that of the
 * oldest answer, and it is refused or old if one of them is.
 */
export function joinAnswers(answers: readonly Any[]): Any {
  const isThere = answers.every(({ at, isCurrent }) => at !== undefined && isCurrent);
  return {
    data: undefined,
    isCurrent: isThere,
    refused: answers.find(({ refused }) => refused !== undefined)?.refused,
    at: isThere ? Math.min(...answers.map(({ at = 0 }) => at)) : undefined,
    isOld: (now) => answers.some(({ isOld }) => isOld(now)),
    reload() {
      for (const { reload } of answers) reload();
    },
  };
}

/**
 * Shows in the page's head whether the data is current, and if not, how old it is. Shows nothing after a 404, because
 * there is no such item then.
 */
export function Live({ answer: { at, refused, isOld } }: { answer: Any }) {
  const now = useNow(1000);
  if (at === undefined) {
    if (refused === undefined) return <span class="live waiting">Loading</span>;
    return refused.status === 404 ? null : <span class="live stale">No answer</span>;
  }
  if (refused !== undefined || isOld(now)) {
    return (
      <span class="live stale" title={refused?.detail ?? "No newer data has arrived."}>
        As of {ago(at, now)}
      </span>
    );
  }
  return (
    <span class="live" title={`As of ${new Date(at).toISOString()}`}>
      Live
    </span>
  );
}

type WhyNotProps = {
  /** `isCut` is true if the beginning of a list is shown, and the request for its next page was refused. */
  answer: Pick<Any, "at" | "refused" | "reload"> & { isCut?: boolean };
  /** Title of the notice if no earlier answer is shown. */
  title?: string;
};

/** Says why a request failed, and how old the shown data is. Shows nothing while requests succeed. */
export function StaleNotice({ answer, title = "Data unavailable" }: WhyNotProps) {
  const { at, refused, reload, isCut = false } = answer;
  if (refused === undefined) return null;
  const since = at === undefined ? title : `Not updated since ${shortly(new Date(at))}`;
  const tone = refused.status === 0 || refused.status >= 500 ? "bad" : "warn";
  const action = { name: "Try again", run: reload };
  return (
    <Notice tone={tone} title={isCut ? "More entries unavailable" : since} action={action}>
      {isTransient(refused)
        ? `${asSentence(refused.detail)} The console tries again automatically.`
        : refused.detail}
    </Notice>
  );
}
