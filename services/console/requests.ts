import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { REQUESTS } from "../../shared/console/contract/contract.ts";
import type { Handlers, Work } from "../../shared/console/contract/operation.ts";
import type { SessionView } from "../../shared/console/contract/session.ts";
import { isoOrNull } from "../../shared/console/view.ts";
import type { AuditEntry } from "../../shared/redis/audit/actions.ts";
import type { CheckToken } from "./auth/identify.ts";
import type { Sessions } from "./auth/sessions.ts";
import { ANYBODY_HERE, type Who } from "./auth/who.ts";
import type { Feed, Live } from "./live.ts";
import { createOpenApi } from "./openapi.ts";

/** A request that is answered. */
export type Context = Work & {
  req: IncomingMessage;
  res: ServerResponse;
  /** The client's name and role. Undefined at a route that is open. */
  who: Who | undefined;
  /** The address that the request counts for. */
  address: string;
};

type Deps = {
  sessions: Sessions;
  checkToken: CheckToken;
  live: Live;
  callEvents: Feed;
  /** Writes a line of the audit about a session. It never fails: if Redis takes no writes, the log alone has it. */
  audit(
    action: "sign_in" | "sign_out",
    entry: Pick<AuditEntry, "by" | "selection"> & { session: string },
  ): Promise<void>;
};

/** Found by the package's own name, so from the sources and from dist/ alike. */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

/** Does the operations that are about the requests of the console. */
export function createRequests({
  sessions,
  checkToken,
  live,
  callEvents,
  audit,
}: Deps): Handlers<typeof REQUESTS, Context> {
  const holds = (req: IncomingMessage, who: Who) => async () =>
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

    getSession: async (_asked, { who = ANYBODY_HERE }) => toView(who),

    async signOut(_asked, { req, res, address }) {
      const { cookie, ended } = await sessions.end(req);
      if (ended.length > 0) await live.check();
      for (const { id, name } of ended)
        await audit("sign_out", { session: id, by: name, selection: `from ${address}` });
      res.setHeader("Set-Cookie", cookie);
    },

    getOpenApi: createOpenApi({ version, cookie: sessions.cookieName }),

    async streamLive(wanted, { req, res, who = ANYBODY_HERE }) {
      live.open(req, res, { wanted, who, holds: holds(req, who) });
    },

    async streamEvents(_asked, { req, res, who = ANYBODY_HERE }) {
      live.openFed(req, res, { feed: callEvents, who, holds: holds(req, who) });
    },
  };
}

function toView({ name, role, until }: Pick<Who, "name" | "role" | "until">): SessionView {
  return { name, role, ends_at: isoOrNull(until) };
}
