import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import { headerNameProblem } from "../../../shared/config/secrets.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Authorize } from "./authorize.ts";
import { createCdpSigner } from "./cdp.ts";

/** What a request brings beside the headers that every one has, and who gives it: undefined if nobody does. */
export type Credentials = { fixed: Readonly<Record<string, string>>; ofRequest: Authorize | undefined };

/** All credentials of one facilitator: the headers and the key of its configuration, and what the host's own hook gives. */
export function createCredentials(
  { headers, cdp }: FacilitatorConfig,
  hook: Authorize | undefined,
  clock: Clock,
): Credentials {
  const fixed = Object.fromEntries(Object.entries(headers).map(([name, secret]) => [name, secret.reveal()]));
  const signers = [
    ...(cdp === undefined ? [] : [createCdpSigner(cdp, clock)]),
    ...(hook === undefined ? [] : [checked(hook)]),
  ];
  if (signers.length === 0) return { fixed, ofRequest: undefined };
  return {
    fixed,
    async ofRequest(request) {
      const signed = await Promise.all(signers.map((sign) => sign(request)));
      return Object.assign({}, ...signed);
    },
  };
}

/** What the hook gives or throws may hold a credential, so no error here repeats any of it. */
function checked(hook: Authorize): Authorize {
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
