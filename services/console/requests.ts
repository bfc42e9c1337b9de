import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { REQUESTS } from "../../shared/console/contract/contract.ts";
import type { Handlers, Work } from "../../shared/console/contract/operation.ts";
import type { SessionView } from "../../shared/console/contract/session.ts";
import { createOpenApi } from "../../shared/console/openapi.ts";
import { isoOrNull } from "../../shared/console/view.ts";
import type { AuditEntry } from "../../shared/redis/audit/actions.ts";
import type { CheckToken } from "./auth/identify.ts";
import type { Sessions } from "./auth/sessions.ts";
import { LOOPBACK_OPERATOR, type Who } from "./auth/who.ts";
import type { Feed, Live } from "./live.ts";

/** The request, its response and its client, for operations that need more than their input. */
export type Context = Work & {
  req: IncomingMessage;
  res: ServerResponse;
  /** The client's name and role. Undefined at a route that needs no authentication. */
  who: Who | undefined;
  /** Address of the client, by which the rate limits count. */
  address: string;
};

type Deps = {
  sessions: Sessions;
  checkToken: CheckToken;
  live: Live;
  callEvents: Feed;
  /**
   * Writes a line about a session in the audit log. Never fails: if Redis accepts no writes, only the process's own
   * log has the failure.
   */
  audit(
    action: "sign_in" | "sign_out",
    entry: Pick<AuditEntry, "by" | "selection"> & { session: string },
  ): Promise<void>;
};

/** Version in package.json. The file is found by the package's own name, both from the sources and from dist/. */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

/** Implements the operations that need the request itself: sessions, live data and the OpenAPI document. */
export function createRequests({
  sessions,
  checkToken,
  live,
  callEvents,
  audit,
}: Deps): Handlers<typeof REQUESTS, Context> {
  const isSessionValid = (req: IncomingMessage, who: Who) => async () =>
    who.by !== "session" || (await sessions.find(req)) !== undefined;

  return {
    async signIn({ token: text }, { res, address }) {
      const token = checkToken(text, address);
      const { name, role } = token;
      const { cookie, id, until } = await sessions.begin(token);
      await audit("sign_in", { session: id, by: name, selection: `${role} from ${address}` });
      res.setHeader("Set-Cookie", cookie);
      return toView({ name, role, until });
    },

    getSession: async (_asked, { who = LOOPBACK_OPERATOR }) => toView(who),

    async signOut(_asked, { req, res, address }) {
      const { cookie, ended } = await sessions.end(req);
      if (ended.length > 0) await live.check();
      for (const { id, name } of ended)
        await audit("sign_out", { session: id, by: name, selection: `from ${address}` });
      res.setHeader("Set-Cookie", cookie);
    },

    getOpenApi: createOpenApi({ version, cookie: sessions.cookieName }),

    async streamLive(wanted, { req, res, who = LOOPBACK_OPERATOR }) {
      live.open(req, res, { wanted, who, isValid: isSessionValid(req, who) });
    },

    async streamEvents(_asked, { req, res, who = LOOPBACK_OPERATOR }) {
      live.openFeed(req, res, { feed: callEvents, who, isValid: isSessionValid(req, who) });
    },
  };
}

function toView({ name, role, until }: Pick<Who, "name" | "role" | "until">): SessionView {
  return { name, role, ends_at: isoOrNull(until) };
}
