import type { Scene } from "../scene.ts";

/** A signature of other bytes: the sender learns that it is refused, the operator learns why. */
export const badSignature: Scene = {
  title: "A bad signature is refused, and only the log says why",
  async play({ stage, sender, world, endpoint }) {
    const hmac = endpoint("hmac-sha256");
    const wrong = { "X-Signature-256": `sha256=${"0".repeat(64)}` };
    const { status, headers, text } = await sender.send({ endpoint: hmac, body: "hello", headers: wrong });
    const { detail, error } = JSON.parse(text) as Record<string, unknown>;
    stage.check(`it is answered 401, with the challenge ${headers["www-authenticate"]}`, status, 401);
    stage.check(`the sender is told: ${detail}`, [detail, error], ["unauthorized", "unauthorized"]);

    const refusal = await world.logs.webhooks.first(
      "webhook.refused in the gateway's log",
      ({ event, path }) => event === "webhook.refused" && path === hmac.path,
    );
    stage.check("the gateway's log names the reason: mismatch", refusal["reason"], "mismatch");
    stage.log("webhooks", refusal);
    stage.check("the answer to the sender does not", text.includes("mismatch"), false);
  },
};
