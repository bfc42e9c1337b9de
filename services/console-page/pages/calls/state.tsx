import { Badge, type Tone } from "../../ui/notice.tsx";
import { wordsOf } from "../payments/state-words.ts";

/** The word and the tone (colour) for each state of a call. */
const STATES: Readonly<Record<string, readonly [word: string, tone: Tone]>> = {
  waiting: ["waiting", "accent"],
  active: ["in flight", "accent"],
  delayed: ["delayed", "warn"],
  held: ["held", "warn"],
  queued: ["queued", "accent"],
  missing: ["missing", "bad"],
  injected: ["injected", "good"],
  failed: ["failed", "bad"],
  discarded: ["discarded", "neutral"],
  ...Object.fromEntries(
    ["settling", "review", "void", "refund_pending", "refunded"].map((state) => {
      const { word, tone } = wordsOf(state);
      return [state, [word, tone] as const];
    }),
  ),
};

export function CallState({ state }: { state: string }) {
  const [word, tone] = STATES[state] ?? [state.replaceAll("_", " "), "neutral"];
  return <Badge tone={tone}>{word}</Badge>;
}

export function wordOf(state: string): string {
  return STATES[state]?.[0] ?? state.replaceAll("_", " ");
}

/** States that the search form offers: all but `missing`. A call that its queue has lost is found only by its id. */
export const STATE_CHOICES: readonly { value: string; name: string }[] = Object.entries(STATES)
  .filter(([value]) => value !== "missing")
  .map(([value, [name]]) => ({ value, name: value === "queued" ? "queued (all)" : name }));
