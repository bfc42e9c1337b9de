import type { State } from "./state.ts";

/** One atomic step of one actor. */
export type Action = {
  readonly name: string;
  /**
   * A fair step happens eventually if nothing else does. All other steps (faults, the outside world) may never happen.
   */
  readonly fair: boolean;
  readonly when: (s: State) => boolean;
  readonly does: (s: State) => State;
};

type Step = Pick<Action, "when" | "does">;

/** Creates a fair step: it happens eventually, unless its actor is killed first. */
export const step = (name: string, { when, does }: Step): Action => ({ name, fair: true, when, does });

/** Creates a step that may never happen. */
export const chance = (name: string, { when, does }: Step): Action => ({ name, fair: false, when, does });
