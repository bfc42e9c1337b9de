import type { State } from "./state.ts";

/** One atomic step of one actor. */
export type Action = {
  readonly name: string;
  /** A fair step happens in the end if nothing else does; the others (faults, the outside world) may never happen. */
  readonly fair: boolean;
  readonly when: (s: State) => boolean;
  readonly does: (s: State) => State;
};

type Step = Pick<Action, "when" | "does">;

/** A step that is taken in the end, unless its actor is killed first. */
export const step = (name: string, { when, does }: Step): Action => ({ name, fair: true, when, does });

/** Something that may happen, or may never happen. */
export const chance = (name: string, { when, does }: Step): Action => ({ name, fair: false, when, does });
