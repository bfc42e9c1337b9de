import { createAudit } from "../../../shared/audit/audit.ts";
import { loadEndpointNames, type NamedEndpoint } from "../../../shared/config/endpoint-names.ts";
import { messageOf } from "../../../shared/errors/app-error.ts";
import {
  createOpenedEndpoints,
  type OpenedEndpoint,
  type OpenedState,
  type TakenSecret,
} from "../../../shared/gateway/opened-endpoints.ts";
import { EXIT, stopSignal } from "../../../shared/lifecycle/run-service.ts";
import { delay, systemClock } from "../../../shared/time/clock.ts";
import { toIso } from "../../../shared/time/iso.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { facts, jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { whyUnknown } from "./unknown-path.ts";

export type OpenOptions = { configDir: string; minutes: number; json?: boolean };

const POLL_MS = 250;

/**
 * `postern endpoint open`: opens an endpoint for one secret, waits for it and shows it. 1 if none came, or if somebody else
 * has opened the endpoint meanwhile. Run again after it was killed, it shows the secret that came.
 */
export function openEndpoint(deps: ProgramDeps, path: string, options: OpenOptions): Promise<number> {
  const { print, note, printError } = deps;
  const { minutes, json } = options;
  return withRedis(deps, options, async ({ partition, log }) => {
    const problem = whyNot(path, loadEndpointNames(options.configDir));
    if (problem !== undefined) {
      printError(`error: ${problem}\n`);
      return EXIT.usage;
    }
    const by = operatorName();
    const stopped = stopSignal();
    const opened = await createOpenedEndpoints(partition).open(path, by, minutes * 60_000);
    const selection = `for ${minutes} min`;
    try {
      await createAudit(partition, log)({ at: systemClock(), action: "open", path, by, selection });
    } catch (cause) {
      await opened.close();
      throw new Error(`${path} is closed again: ${messageOf(cause)}`, { cause });
    }
    note(`${path} is open ${selection}: make the webhook at the sender now (Ctrl-C closes it)\n`);

    const state = await wait(opened, stopped);
    if (state.kind !== "secret") throw new Error(whyNone(path, state));
    print(json ? jsonLine(toJson(path, state)) : inWords(state));
    return EXIT.ok;
  });
}

/** Why this endpoint cannot be opened. */
function whyNot(path: string, endpoints: readonly NamedEndpoint[] | undefined): string | undefined {
  const unknown = whyUnknown(path, endpoints);
  if (unknown !== undefined) return unknown;
  const takesSecret = endpoints?.some((each) => each.path === path && each.takesSecret);
  return takesSecret ? undefined : `the sender of ${plain(path)} gives no secret in a handshake`;
}

/** Waits for the secret. Ctrl-C closes the endpoint; a secret that came just before is still shown. */
async function wait(opened: OpenedEndpoint, stopped: Promise<unknown>): Promise<OpenedState> {
  const leave = new AbortController();
  void stopped.then(() => leave.abort());
  while (!leave.signal.aborted) {
    const state = await opened.look();
    if (state.kind !== "open") return state;
    await delay(POLL_MS, leave.signal).catch(() => {});
  }
  const last = await opened.close();
  return last.kind === "open" ? { kind: "closed" } : last;
}

function whyNone(path: string, state: Exclude<OpenedState, TakenSecret>): string {
  if (state.kind === "taken-over")
    return `${plain(state.by)} has opened ${path} again, and is shown its secret`;
  return `${path} is closed, and no secret came`;
}

function toJson(path: string, { secret, address, takenAt }: TakenSecret) {
  return { path, secret, address, taken_at: toIso(takenAt) };
}

function inWords({ secret, address, takenAt }: TakenSecret): string {
  const known = facts([
    ["secret", secret],
    ["from", address],
    ["at", toIso(takenAt)],
  ]);
  return `${known}
This was its only showing: Postern has not kept it. If it came from the sender, set it as the endpoint's
secret in webhooks.toml, or where that points to, and restart the webhooks gateways.
`;
}
