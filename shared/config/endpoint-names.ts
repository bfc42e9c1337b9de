import { PRESETS } from "../webhook-auth/presets/presets.ts";
import { openConfigDir } from "./config-dir.ts";
import { isTable } from "./fields.ts";

export type NamedEndpoint = {
  path: string;
  /** Whether a handshake brings its secret (`postern endpoints open`). */
  takesSecret: boolean;
  /** As the runner sees it; undefined if it has none. */
  name: string | undefined;
  preset: string | undefined;
  /** How a sender proves who it is. */
  auth: string;
  /** The job indexes that it calls, in their order. */
  jobs: readonly number[];
};

/**
 * The endpoints of webhooks.toml, for a command that needs to know which there are: nothing is checked, and no secret is read.
 * Undefined without the file. Throws `start.config_invalid` if it is no TOML.
 */
export function loadEndpointNames(dir: string): readonly NamedEndpoint[] | undefined {
  const files = openConfigDir(dir);
  if (!files.has("webhooks.toml")) return undefined;
  const table = files.checked(files.table("webhooks.toml"));
  const endpoints = isTable(table) && Array.isArray(table["endpoints"]) ? table["endpoints"] : [];
  return endpoints.filter(isTable).flatMap(({ path, preset, handshakes, name, auth, job_id, route_by }) => {
    if (typeof path !== "string") return [];
    const described =
      typeof preset === "string" && Object.hasOwn(PRESETS, preset) ? PRESETS[preset] : undefined;
    return [
      {
        path,
        takesSecret: bringSecret(handshakes ?? described?.endpoint.handshakes),
        name: textOf(name),
        preset: textOf(preset),
        auth: textOf(auth ?? described?.endpoint.auth) ?? "signature",
        jobs: jobsOf(job_id, route_by),
      },
    ];
  });
}

/** Their paths; none if they are not known. */
export function endpointPaths(dir: string): readonly string[] {
  try {
    return (loadEndpointNames(dir) ?? []).map(({ path }) => path);
  } catch {
    return [];
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function jobsOf(job: unknown, routeBy: unknown): number[] {
  const routed = isTable(routeBy) && isTable(routeBy["jobs"]) ? Object.values(routeBy["jobs"]) : [];
  const jobs = [job, ...routed].filter((each) => typeof each === "number");
  return [...new Set(jobs)].sort((a, b) => a - b);
}

function bringSecret(handshakes: unknown): boolean {
  if (!Array.isArray(handshakes)) return false;
  return handshakes.some(
    (each) => isTable(each) && isTable(each["proof"]) && "secret_header" in each["proof"],
  );
}
