import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { LoadOptions, LoadResult } from "../processes/load-protocol.ts";
import { compiled } from "./build.ts";
import { BODY, CONNECTIONS, hookPath, ID_HEADER, keptPath, SIGNATURE } from "./world.ts";

type Wanted = Pick<LoadOptions, "address" | "warmUp" | "calls"> & { connections?: number };
/**
 * Options of the calls. Without `jobs`, all calls are of job 1. `withIds` gives each call a delivery id. `isKept` keeps the
 * results of job 1.
 */
type Calls = Wanted & { jobs?: readonly number[]; withIds?: boolean; isKept?: boolean };

/** Sends signed calls from a separate process, spread evenly over the jobs. Throws if one of them was not answered with 202. */
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

/** Sends POSTs from a separate process, with any answers. */
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
