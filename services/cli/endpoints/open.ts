import { loadEndpointNames, type NamedEndpoint } from "../../../shared/config/endpoint-names.ts";
import {
  createOpenedEndpoints,
  type OpenedEndpoint,
  type OpenedState,
  type TakenSecret,
} from "../../../shared/ingress/opened-endpoints.ts";
import { EXIT, withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { whyUnknown } from "./unknown-path.ts";

export type OpenOptions = { configDir: string; minutes: number; json?: boolean };

const POLL_MS = 250;

/**
 * `postern endpoints open`: for senders that create the secret themselves and send it in a handshake, their first
 * request. Lets the endpoint accept one handshake, waits for it, and prints the secret. Exit code 1 if no secret
 * arrives in time, or if another operator opens the endpoint while this command waits. If the command is killed and run
 * again, it prints a secret that arrived between the two runs.
 */
export function openEndpoint(deps: ProgramDeps, path: string, options: OpenOptions): Promise<number> {
  const { print, note, printError } = deps;
  const { minutes, json } = options;
  return withRedis(deps, options, ({ partition, clock, by }) =>
    withStopSignal(async (stopped) => {
      const problem = whyNotOpenable(path, loadEndpointNames(options.configDir));
      if (problem !== undefined) {
        printError(`error: ${problem}\n`);
        return EXIT.usage;
      }
      const selection = `for ${minutes} min`;
      const auditEntry = { at: clock(), action: "open", path, by, selection } as const;
      const opened = await createOpenedEndpoints(partition).open(auditEntry, minutes * 60_000);
      note(
        `${plain(path)} is open ${selection}: create the webhook at the sender now (Ctrl-C closes the endpoint)\n`,
      );

      const state = await awaitSecret(opened, stopped);
      if (state.kind !== "secret") throw new Error(whyNoSecret(path, state));
      print(json ? jsonLine(toJson(path, state)) : inWords(state));
      return EXIT.ok;
    }),
  );
}

/** Says why this endpoint cannot be opened; undefined if it can. */
function whyNotOpenable(path: string, endpoints: readonly NamedEndpoint[] | undefined): string | undefined {
  const unknown = whyUnknown(path, endpoints);
  if (unknown !== undefined) return unknown;
  const takesSecret = endpoints?.some((each) => each.path === path && each.takesSecret);
  return takesSecret ? undefined : `the sender of ${plain(path)} does not send its secret in a handshake`;
}

/** Waits for the secret. Ctrl-C closes the endpoint, but a secret that arrived just before is still printed. */
async function awaitSecret(opened: OpenedEndpoint, stopped: Promise<unknown>): Promise<OpenedState> {
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

function whyNoSecret(path: string, state: Exclude<OpenedState, TakenSecret>): string {
  if (state.kind === "taken-over")
    return `${plain(state.by)} has opened ${plain(path)} again and will get its secret`;
  return `${plain(path)} is closed; no secret was received`;
}

function toJson(path: string, { secret, address, takenAt }: TakenSecret) {
  return { path, secret, address, taken_at: toIso(takenAt) };
}

function inWords({ secret, address, takenAt }: TakenSecret): string {
  const known = facts([
    ["secret", secret],
    ["address", address],
    ["received at", toIso(takenAt)],
  ]);
  return `${known}
Postern has not kept the secret and cannot show it again. If it came from the sender, set it as the endpoint's
secret in webhooks.toml, or in the file or variable that webhooks.toml names, and restart the webhooks gateways.
`;
}
