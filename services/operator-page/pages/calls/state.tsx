import { Badge, type Tone } from "../../ui/notice.tsx";

/** What each state of a call is called, and how it stands with it. */
const STATES: Readonly<Record<string, [word: string, tone: Tone]>> = {
  waiting: ["waiting", "accent"],
  active: ["in hand", "accent"],
  delayed: ["tried again later", "warn"],
  queued: ["queued", "accent"],
  injected: ["delivered", "good"],
  failed: ["failed", "bad"],
  discarded: ["discarded", "neutral"],
  settling: ["settling", "warn"],
  review: ["in review", "bad"],
  void: ["not paid", "neutral"],
  refund_pending: ["refund pending", "warn"],
  refunded: ["refunded", "neutral"],
};

export function CallState({ state }: { state: string }) {
  const [word, tone] = STATES[state] ?? [state.replaceAll("_", " "), "neutral"];
  return <Badge tone={tone}>{word}</Badge>;
}

export function wordOf(state: string): string {
  return STATES[state]?.[0] ?? state.replaceAll("_", " ");
}

/** The states that one can search for. A call that is `queued`, but in no queue, is found by its id alone. */
export const STATE_CHOICES: readonly { value: string; name: string }[] = Object.entries(STATES)
  .filter(([value]) => value !== "queued")
  .map(([value, [name]]) => ({ value, name }));
