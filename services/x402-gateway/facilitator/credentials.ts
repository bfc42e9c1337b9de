import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import { headerNameProblem } from "../../../shared/config/secrets.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Authorize } from "./authorize.ts";
import { createCdpSigner } from "./cdp.ts";

/**
 * Headers for requests to a facilitator. `fixed` are the same for every request. `headersFor` makes further headers for one request; it is
 * undefined if no request needs any.
 */
export type Credentials = { fixed: Readonly<Record<string, string>>; headersFor: Authorize | undefined };

/**
 * Combines all credentials of one facilitator: the headers and the key of its configuration, and the headers of the host program's hook.
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

/** Wraps the hook. Its headers and errors may hold a credential, so no error of this function repeats them. */
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
