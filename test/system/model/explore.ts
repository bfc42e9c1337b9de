import type { Action } from "./action.ts";
import type { Invariant } from "./invariants.ts";
import { encode, initialStates, type State } from "./state.ts";

export type Violation = {
  readonly invariant: Invariant;
  readonly path: readonly string[];
  readonly state: State;
};

export type Exploration = {
  readonly states: number;
  readonly transitions: number;
  /** States without a possible fair step. The invariants `atRest` were checked there. */
  readonly quiescent: number;
  /** Actions that were taken at least once. */
  readonly taken: ReadonlySet<string>;
  /** False if some sequence of fair steps is circular, and so never comes to rest. */
  readonly fairRunsEnd: boolean;
  /** First violation found, with a shortest path to it. */
  readonly violation: Violation | undefined;
};

/** Visits all reachable states in breadth-first order, and stops at the first that breaks an invariant. */
export function explore(actions: readonly Action[], invariants: readonly Invariant[]): Exploration {
  const states: State[] = [];
  const ids = new Map<string, number>();
  const parents: number[] = [];
  const by: (Action | undefined)[] = [];
  const fairEdges: number[][] = [];
  const taken = new Set<string>();
  let transitions = 0;
  let quiescent = 0;

  function visit(state: State, parent: number, action?: Action): number {
    const key = encode(state);
    const known = ids.get(key);
    if (known !== undefined) return known;
    const id = states.push(state) - 1;
    ids.set(key, id);
    parents.push(parent);
    by.push(action);
    return id;
  }

  /** Returns the state to which a step leads, if it is a different one. */
  function take(action: Action, id: number): number | undefined {
    const next = visit(action.does(states[id]!), id, action);
    if (next === id) return undefined;
    transitions += 1;
    taken.add(action.name);
    return next;
  }

  /** Expands a state. Returns whether it is at rest. */
  function expand(id: number): boolean {
    const fair: number[] = [];
    for (const action of actions) {
      if (!action.when(states[id]!)) continue;
      const next = take(action, id);
      if (next !== undefined && action.fair) fair.push(next);
    }
    fairEdges.push(fair);
    const atRest = fair.length === 0;
    quiescent += Number(atRest);
    return atRest;
  }

  function pathTo(id: number): string[] {
    const path: string[] = [];
    for (let at = id; by[at] !== undefined; at = parents[at]!) path.unshift(by[at]!.name);
    return path;
  }

  const end = (violation?: Violation): Exploration => ({
    states: states.length,
    transitions,
    quiescent,
    taken,
    fairRunsEnd: violation === undefined && isAcyclic(fairEdges),
    violation,
  });

  for (const state of initialStates) visit(state, -1);
  for (let id = 0; id < states.length; id += 1) {
    const atRest = expand(id);
    const state = states[id]!;
    const invariant = invariants.find((one) => (atRest || !one.atRest) && !one.holds(state));
    if (invariant) return end({ invariant, path: pathTo(id), state });
  }
  return end();
}

type Edges = readonly (readonly number[])[];

function countIncoming(edges: Edges): Int32Array {
  const incoming = new Int32Array(edges.length);
  for (const target of edges.flat()) incoming[target]! += 1;
  return incoming;
}

/** Removes nodes without incoming edges until none is left (Kahn). If nodes remain, there is a cycle. */
function isAcyclic(edges: Edges): boolean {
  const incoming = countIncoming(edges);
  const free = [...incoming.keys()].filter((id) => incoming[id] === 0);
  for (let at = 0; at < free.length; at += 1) {
    for (const target of edges[free[at]!]!) {
      incoming[target]! -= 1;
      if (incoming[target] === 0) free.push(target);
    }
  }
  return free.length === edges.length;
}
