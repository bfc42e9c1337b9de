import { z } from "zod";
import { ROLES } from "../../../shared/config/operator-toml.ts";
import { isoOrNull, isoTime } from "../../../shared/console/view.ts";
import { ANYBODY_HERE, type Who } from "../auth/who.ts";
import { type Route, route } from "../route.ts";

const SessionView = z.object({
  /** The token's. */
  name: z.string(),
  role: z.enum(ROLES),
  /** Null of whoever has shown a token with the request itself, or needs none. */
  ends_at: isoTime.nullable(),
});

/** Signing in to the page. Programs send their token with each request instead. */
export const sessionRoutes: readonly Route[] = [
  route({
    method: "POST",
    path: "/session",
    access: "anybody",
    summary: "Start a session: exchange a token for a cookie",
    body: z.strictObject({ token: z.string().min(1).max(1024) }),
    answers: { 200: { description: "The session. Set-Cookie has its cookie.", schema: SessionView } },
    problems: ["operator.unauthorized"],
    audit: ["sign_in"],
    async answer({ body }, { sessions, checkToken, address, audit }) {
      const token = checkToken(body.token, address);
      const { name, role } = token;
      const { cookie, id, until } = await sessions.begin(token);
      await audit("sign_in", { session: id, by: name, selection: `${role} from ${address}` });
      return { status: 200, json: toView({ name, role, until }), headers: { "Set-Cookie": cookie } };
    },
  }),
  route({
    method: "GET",
    path: "/session",
    access: "viewer",
    summary: "Show the current user",
    answers: { 200: { description: "The session.", schema: SessionView } },
    answer: async (_asked, { who = ANYBODY_HERE }) => ({ status: 200, json: toView(who) }),
  }),
  route({
    method: "DELETE",
    path: "/session",
    access: "anybody",
    summary: "End the session, if any",
    answers: { 204: { description: "The session has ended." } },
    audit: ["sign_out"],
    async answer(_asked, { sessions, live, req, address, audit }) {
      const { cookie, ended } = await sessions.end(req);
      if (ended.length > 0) await live.check();
      for (const { id, name } of ended)
        await audit("sign_out", { session: id, by: name, selection: `from ${address}` });
      return { status: 204, headers: { "Set-Cookie": cookie } };
    },
  }),
];

function toView({ name, role, until }: Pick<Who, "name" | "role" | "until">): z.infer<typeof SessionView> {
  return { name, role, ends_at: isoOrNull(until) };
}
