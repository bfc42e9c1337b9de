import { beforeAll, expect, test } from "vitest";
import { LONG_RUN, onlyInLongRun, sample } from "../../support/long-run.ts";
import { type Exploration, explore } from "./explore.ts";
import { INVARIANTS, type Invariant } from "./invariants.ts";
import { modelOf } from "./model.ts";
import { type Bounds, PROTOCOL, type Protocol } from "./protocol.ts";
import { VARIANTS } from "./variants.ts";

type Space = { readonly name: string; readonly statesMin: number; readonly bounds: Bounds };

/**
 * Minimum numbers of states. Each is far below the current number, and far above that of an empty or truncated
 * exploration.
 */
const SPACES: readonly [Space, ...Space[]] = [
  {
    name: "two requests, one kill, one reconciler",
    statesMin: 10_000,
    bounds: { sends: 2, crashes: 1, reconcilers: 1, losesJobs: true },
  },
  {
    name: "two requests, two kills, two reconcilers",
    statesMin: 100_000,
    bounds: { sends: 2, crashes: 2, reconcilers: 2, losesJobs: true },
  },
  {
    name: "three requests, two kills, one reconciler",
    statesMin: 80_000,
    bounds: { sends: 3, crashes: 2, reconcilers: 1, losesJobs: true },
  },
];

const SMALL: Bounds = { sends: 2, crashes: 1, reconcilers: 1, losesJobs: false };

type World = { readonly rules?: Partial<Protocol>; readonly bounds: Bounds };

const actionsOf = ({ rules, bounds }: World) => modelOf({ ...PROTOCOL, ...rules }, bounds);

const exploreAll = (world: World): Exploration => explore(actionsOf(world), INVARIANTS);

const [{ bounds: smallest }] = SPACES;
/** Exploration of the smallest space, which two tests use. */
let ofTheSmallest: Exploration;
beforeAll(() => {
  ofTheSmallest = exploreAll({ bounds: smallest });
});

function story({ violation, states }: Exploration): string {
  if (!violation) return `no invariant broken in ${states} states`;
  const { invariant, path } = violation;
  const steps = path.map((name, at) => `  ${String(at + 1).padStart(2)}. ${name}`);
  return [`${invariant.id} broken after ${path.length} steps: ${invariant.says}`, ...steps].join("\n");
}

function invariant(id: string): Invariant {
  const found = INVARIANTS.find((one) => one.id === id);
  if (!found) throw new Error(`no invariant ${id}`);
  return found;
}

for (const { name, statesMin, bounds } of sample(SPACES)) {
  test(`the protocol with ${name} keeps every invariant in all of its more than ${statesMin} states`, () => {
    const exploration = bounds === smallest ? ofTheSmallest : exploreAll({ bounds });
    const { states, transitions, quiescent, fairRunsEnd } = exploration;
    console.info(`${name}: ${states} states, ${transitions} transitions, ${quiescent} at rest`);
    expect(exploration.violation, story(exploration)).toBeUndefined();
    expect(states).toBeGreaterThan(statesMin);
    expect(quiescent).toBeGreaterThan(50);
    expect(fairRunsEnd, "a fair run goes round in circles").toBe(true);
  });
}

test("every step of the model is taken in some state", () => {
  const names = actionsOf({ bounds: smallest }).map((action) => action.name);
  expect(names.filter((name) => !ofTheSmallest.taken.has(name))).toEqual([]);
});

onlyInLongRun(() => {
  test("without the search for missing jobs all invariants hold, because it only repairs a QUEUED that is marked too early", () => {
    const without = exploreAll({ rules: { readdsMissingJobs: false }, bounds: SMALL });
    expect(without.violation, story(without)).toBeUndefined();
    const repaired = exploreAll({ rules: { addsAsItSettles: false }, bounds: SMALL });
    expect(repaired.violation, story(repaired)).toBeUndefined();
  });
});

/**
 * Variants to run. A short run has one for each invariant. A second crash makes the space several times larger, so only
 * the long run has it.
 */
const RUN_HERE = LONG_RUN
  ? VARIANTS
  : INVARIANTS.flatMap(({ id }) =>
      sample(VARIANTS.filter(({ breaks, crashes }) => breaks === id && crashes === undefined)),
    );

for (const { name, breaks, steps, rules, losesJobs = false, crashes = SMALL.crashes } of RUN_HERE) {
  test(`the wrong protocol "${name}" breaks ${breaks} after ${steps} steps, and the model detects it`, () => {
    const bounds = { ...SMALL, losesJobs, crashes };
    const exploration = explore(actionsOf({ rules, bounds }), [invariant(breaks)]);
    expect(exploration.violation?.invariant.id, story(exploration)).toBe(breaks);
    expect(exploration.violation?.path.length, story(exploration)).toBe(steps);
  });
}

test("each invariant of the model is broken by at least one wrong protocol", () => {
  const broken = new Set(VARIANTS.map((variant) => variant.breaks));
  expect([...broken].sort()).toEqual(INVARIANTS.map(({ id }) => id));
});
