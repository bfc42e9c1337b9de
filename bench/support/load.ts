import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { LoadOptions, LoadResult } from "../processes/load-protocol.ts";
import { compiled } from "./build.ts";
import { BODY, CONNECTIONS, hookPath, ID_HEADER, keptPath, SIGNATURE } from "./world.ts";

type Wanted = Pick<LoadOptions, "address" | "warmUp" | "calls"> & { connections?: number };
/**
 * Options of `load`. Without `jobs`, all calls are of job 1. With `withIds`, each call has its own delivery id. With
 * `isKept`, the calls go to an endpoint that keeps their results; only job 1 has such an endpoint.
 */
type Calls = Wanted & { jobs?: readonly number[]; withIds?: boolean; isKept?: boolean };

/** Sends signed webhooks from a separate process, to the endpoints of all `jobs` in turn. Throws if one did not get a 202. */
export function load({ jobs = [1], withIds = false, isKept = false, ...wanted }: Calls): Promise<LoadResult> {
  return send({
    paths: jobs.map((job) => (isKept ? keptPath(job) : hookPath(job, withIds))),
    headers: [`X-Signature-256: ${SIGNATURE}`],
    ...(withIds && { idHeader: ID_HEADER }),
    status: 202,
    ...wanted,
  });
}

type Sent = Wanted &
  Pick<LoadOptions, "paths" | "headersFile" | "idHeader" | "status"> & { headers?: readonly string[] };

/** Sends POSTs from a separate process. Throws if one of them did not get the wanted answer. */
export async function send(sent: Sent): Promise<LoadResult> {
  const result = await sendAny(sent);
  if (Object.keys(result.refused).length === 0 && result.unanswered === 0) return result;
  throw new Error(`calls were refused, so the rate says nothing: ${JSON.stringify(result)}`);
}

/** Sends POSTs from a separate process. Other answers than the wanted one are counted in the result and are no error. */
export async function sendAny({
  connections = CONNECTIONS,
  headers = [],
  ...rest
}: Sent): Promise<LoadResult> {
  const options: LoadOptions = { body: BODY, connections, headers, ...rest };
  const script = compiled("bench/processes/load.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(options)]);
  return JSON.parse(stdout) as LoadResult;
}
