import { PRESETS } from "../webhook-auth/presets/presets.ts";
import { openConfigDir } from "./config-dir.ts";
import { isTable } from "./fields.ts";

export type NamedEndpoint = {
  path: string;
  /** Whether the sender chooses the endpoint's secret and sends it in a handshake (`postern endpoints open`). */
  takesSecret: boolean;
  /** The endpoint's name, which the runner gets with each call; undefined if it has none. */
  name: string | undefined;
  preset: string | undefined;
  /** Authentication mode of the endpoint. */
  auth: string;
  /** Indexes of the endpoint's jobs, in ascending order. */
  jobs: readonly number[];
  /** Keys of the endpoint that hold no secret (`SHOWN_KEYS`), with their values as JSON. */
  settings: Readonly<Record<string, string>>;
  /** The endpoint's `public_url`. Without one, its URL on the gateway's machine. */
  url: string;
};

/** Keys that may be shown. Any other key may hold or name a secret. */
const SHOWN_KEYS = [
  ...[
    "methods",
    "job_id",
    "route_by",
    "when",
    "delivery_id",
    "idempotency_header",
    "idempotency_window_secs",
  ],
  ...["event_type", "forward_headers", "forward_query", "body_limit_bytes", "allow_ips", "rate_limit"],
  ...[
    "rate_limit_per_address",
    "keep_rejected_bodies",
    "keep_result",
    "respond",
    "wait_secs",
    "callback_hosts",
  ],
] as const;

/**
 * Reads the endpoints of webhooks.toml for a command that needs their names. Validates nothing and reads no secret.
 * Returns undefined if there is no `webhooks.toml`. Throws `start.config_invalid` if the file is not TOML.
 */
export function loadEndpointNames(dir: string): readonly NamedEndpoint[] | undefined {
  const files = openConfigDir(dir);
  if (!files.has("webhooks.toml")) return undefined;
  const table = files.checked(files.table("webhooks.toml"));
  const endpoints = isTable(table) && Array.isArray(table["endpoints"]) ? table["endpoints"] : [];
  const bound = (isTable(table) ? textOf(table["bind_address"]) : undefined) ?? "127.0.0.1:9090";
  return endpoints.filter(isTable).flatMap((endpoint) => {
    const { path, preset, handshakes, name, auth, job_id, route_by, public_url } = endpoint;
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
        settings: shownOf(endpoint),
        url: urlOf(textOf(public_url), bound, path),
      },
    ];
  });
}

/** Returns the paths of the endpoints; none if `webhooks.toml` is absent or cannot be read. */
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

function shownOf(endpoint: Readonly<Record<string, unknown>>): Record<string, string> {
  const given = SHOWN_KEYS.filter((key) => endpoint[key] !== undefined);
  return Object.fromEntries(given.map((key) => [key, JSON.stringify(endpoint[key], withoutBigints)]));
}

function withoutBigints(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/** Returns the endpoint's URL without its query, because a query may hold a credential. */
function urlOf(publicUrl: string | undefined, bound: string, path: string): string {
  const read = publicUrl === undefined ? null : URL.parse(publicUrl);
  if (read !== null) return `${read.origin}${read.pathname}`;
  return `http://${bound.replace(/^(?:0\.0\.0\.0|\[::\])(?=:)/, "127.0.0.1")}${path}`;
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
