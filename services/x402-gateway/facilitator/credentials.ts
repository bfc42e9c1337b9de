import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import { headerNameProblem } from "../../../shared/config/secrets.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Authorize } from "./authorize.ts";
import { createCdpSigner } from "./cdp.ts";

/**
 * Headers that authenticate the gateway at a facilitator. `fixed` are the same for every request. `headersFor` makes further
 * headers for one request, such as a token. It is undefined if the facilitator needs no such headers.
 */
export type Credentials = { fixed: Readonly<Record<string, string>>; headersFor: Authorize | undefined };

/**
 * Combines all credentials of one facilitator: the headers and the CDP key in its configuration, and the headers that the host
 * program's `authorize` function returns (`hook`).
 */
export function createCredentials(
  { headers, cdp }: FacilitatorConfig,
  hook: Authorize | undefined,
  clock: Clock,
): Credentials {
  const fixed = Object.fromEntries(Object.entries(headers).map(([name, secret]) => [name, secret.reveal()]));
  const signers = [
    ...(cdp === undefined ? [] : [createCdpSigner(cdp, clock)]),
    ...(hook === undefined ? [] : [withCheckedHeaders(hook)]),
  ];
  if (signers.length === 0) return { fixed, headersFor: undefined };
  return {
    fixed,
    async headersFor(request) {
      const signed = await Promise.all(signers.map((sign) => sign(request)));
      return Object.assign({}, ...signed);
    },
  };
}

/**
 * Wraps the host program's `authorize` function, and checks the headers that it returns. Its headers and errors may hold a
 * credential, so the errors that are thrown here repeat neither.
 */
function withCheckedHeaders(hook: Authorize): Authorize {
  return async (request) => {
    const given: unknown = await Promise.resolve(request)
      .then(hook)
      .catch((error: unknown) => {
        throw new Error(`the authorize hook failed (${error instanceof Error ? error.name : typeof error})`);
      });
    if (typeof given !== "object" || given === null)
      throw new Error("the authorize hook returned no headers");
    const entries = Object.entries(given).map(([name, value]) => [name.toLowerCase(), value] as const);
    if (!entries.every(isSendable)) throw new Error("the authorize hook returned an invalid header");
    return Object.fromEntries(entries);
  };
}

function isSendable([name, value]: readonly [string, unknown]): boolean {
  return headerNameProblem(name) === undefined && typeof value === "string" && /^[\t -~]*$/.test(value);
}
