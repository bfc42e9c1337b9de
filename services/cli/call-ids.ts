import { CALL_ID } from "../../shared/call/call-id.ts";
import type { Operations } from "../../shared/console/contract/contract.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";

/** Returns the ids of the calls that the user named. Each name is an id or a prefix of one. Throws as `callIdOf` does. */
export async function callIdsOf(operations: Operations, named: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const each of named) ids.push(await callIdOf(operations, each));
  return ids;
}

/**
 * Returns the id of the call that the user named, by its id or a prefix of it. Throws if no call, or more than one, has
 * an id with this prefix.
 */
export async function callIdOf({ listCalls }: Operations, named: string): Promise<string> {
  if (CALL_ID.test(named)) return named;
  const { calls, is_complete: isComplete } = await listCalls({ id: named, limit: SHOWN });
  const [only, ...others] = calls.map(({ id }) => id);
  if (only !== undefined && others.length === 0 && (isComplete || named.length >= UNIQUE_PREFIX_CHARS))
    return only;
  if (only !== undefined && others.length > 0)
    throw new Error(`several calls have an id that starts with ${named}: ${[only, ...others].join(", ")}`);
  const reason = isComplete
    ? `no listed call has an id that starts with ${named}; an older call is found only by its whole id`
    : `there are too many calls to find the one whose id starts with ${named}; give the whole id`;
  throw AppError.public("call.unknown", reason);
}

const SHOWN = 3;

/**
 * A prefix of at least this length is accepted although the search did not reach all calls. It has 12 random hex
 * digits, so another call with the same prefix is very unlikely.
 */
const UNIQUE_PREFIX_CHARS = 14;
