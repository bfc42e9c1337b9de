import type { EndpointView } from "../../../shared/console/overview/endpoints.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, toSeconds, withAge } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ListOptions = OperationTarget & { json?: boolean };

/**
 * `postern endpoints list`: prints the configured endpoints. Also prints endpoints that are no longer configured but
 * had requests in the last 24 hours.
 */
export function listEndpoints(deps: ProgramDeps, options: ListOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const { endpoints } = await operations.listEndpoints();
    const listing = createListing<EndpointView>(deps, {
      columns: [
        { heading: "ENDPOINT" },
        { heading: "PRESET OR AUTH" },
        { heading: "STATE", cutTo: 20, tone: (state) => (state === "enabled" ? "good" : "attention") },
        { heading: "JOBS", cutTo: 6 },
        { heading: "ACCEPTED" },
        { heading: "REPEATS" },
        { heading: "DROPPED" },
        { heading: "REFUSED", tone: (count) => (count === "0" ? undefined : "bad") },
      ],
      toCells,
      toJson: (endpoint) => endpoint,
      toName: ({ path }) => path,
    });
    for (const endpoint of endpoints) listing.add(endpoint);
    listing.end(`${counted(endpoints.length, "endpoint")}, with the requests of the last 24 hours`);
    return EXIT.ok;
  });
}

function toCells(endpoint: EndpointView): string[] {
  const { path, configured, preset, auth, jobs, counts } = endpoint;
  const sender = configured ? (preset ?? auth ?? "-") : "not configured";
  const refused = Object.values(counts.refused).reduce((sum, count) => sum + count, 0);
  const numbers = [counts.accepted, counts.replayed, counts.dropped, refused].map(String);
  return [path, sender, stateText(endpoint), jobs.length === 0 ? "-" : jobs.join(", "), ...numbers];
}

function stateText({ state, set, held }: EndpointView): string {
  if (set === null) return state;
  const calls = held === 0 ? "" : `, ${counted(held, "call")} held`;
  return `${state} since ${withAge(toSeconds(set.at))} by ${set.by}: ${set.reason}${calls}`;
}
