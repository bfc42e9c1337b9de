import type { Answer } from "../api/use-answer.ts";
import { Notice } from "./notice.tsx";
import { ago, useNow } from "./time.tsx";

type Any = Answer<unknown>;

/** Says whether what is shown is of now, and since when it is not. */
export function Live({ answer: { at, refused } }: { answer: Any }) {
  const now = useNow(1000);
  if (at === undefined) return <span class="live">Loading</span>;
  const came = new Date(at).toISOString();
  if (refused === undefined)
    return (
      <span class="live" title={`As of ${came}`}>
        Live
      </span>
    );
  return (
    <span class="live stale" title={refused.detail}>
      As of {ago(Math.min(at, now), now)}
    </span>
  );
}

/** Why there is nothing new, in words. It says nothing while all is well. */
export function WhyNot({ answer: { refused, reload, data } }: { answer: Any }) {
  if (refused === undefined) return null;
  const title = data === undefined ? "This cannot be read" : "What you see is not of now";
  const tone = refused.status === 0 || refused.status >= 500 ? "bad" : "warn";
  return (
    <Notice tone={tone} title={title} action={{ name: "Try again", run: reload }}>
      {refused.detail}
    </Notice>
  );
}
