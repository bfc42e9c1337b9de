import type { RequestListener } from "node:http";
import { z } from "zod";
import { bareApp, serve } from "../../../shared/http/ops.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { type Mining, Oddities } from "./chain.ts";
import { type Counter, readJson } from "./facilitator-server.ts";
import { Fault, type Faults } from "./faults.ts";
import { createNode, NodeFaults, type RpcRequest } from "./node.ts";

type Control = {
  faults: Faults;
  counter: Counter;
  mining: Mining;
  /** RPC URL of anvil, the node of the chain. */
  rpcUrl: string;
  makeOdd: (oddities: Oddities) => Promise<void>;
  describe: () => object;
};

const MiningOrder = z.strictObject({ running: z.boolean() });

/**
 * Creates the handler of the control port, at which tests and trials inspect the devnet and make it fail in many ways.
 *
 *   GET /                              describes the devnet
 *   POST | GET | DELETE /faults        adds a fault, lists the remaining ones, deletes all
 *   GET | DELETE /requests             lists and counts the facilitator's requests, resets list and counts
 *   GET | PUT /mining {running}        shows or sets whether blocks are made automatically
 *   PUT /token                         changes the behaviour of the token
 *   GET | PUT /node                    shows or sets the faults of the node at POST /rpc
 *   POST /rpc                          answers like the chain's own node, with the faults of /node
 */
export function createControlHandler({
  faults,
  counter,
  mining,
  rpcUrl,
  makeOdd,
  describe,
}: Control): RequestListener {
  const app = bareApp();
  app.get("/", (_req, res) => {
    res.json(describe());
  });
  app
    .route("/faults")
    .get((_req, res) => {
      res.json({ faults: faults.list() });
    })
    .post(async (req, res) => {
      const fault = parseOrder(Fault, await readJson(req, res));
      faults.order(fault);
      res.status(201).json(fault);
    })
    .delete((_req, res) => {
      faults.clear();
      res.status(204).end();
    });
  app
    .route("/requests")
    .get((_req, res) => {
      res.json(counter.read());
    })
    .delete((_req, res) => {
      counter.reset();
      res.status(204).end();
    });
  app
    .route("/mining")
    .get((_req, res) => {
      res.json({ running: mining.running });
    })
    .put(async (req, res) => {
      const { running } = parseOrder(MiningOrder, await readJson(req, res));
      await (running ? mining.resume() : mining.pause());
      res.json({ running });
    });
  app.put("/token", async (req, res) => {
    const oddities = parseOrder(Oddities, (await readJson(req, res)) ?? {});
    await makeOdd(oddities);
    res.json(oddities);
  });
  serveNode(app, rpcUrl);
  return serve(app);
}

function serveNode(app: ReturnType<typeof bareApp>, rpcUrl: string): void {
  let nodeFaults = NodeFaults.parse({});
  const node = createNode(rpcUrl, () => nodeFaults);
  app
    .route("/node")
    .get((_req, res) => {
      res.json(nodeFaults);
    })
    .put(async (req, res) => {
      nodeFaults = parseOrder(NodeFaults, (await readJson(req, res)) ?? {});
      res.json(nodeFaults);
    });
  app.post("/rpc", async (req, res) => {
    const asked = (await readJson(req, res)) as RpcRequest | readonly RpcRequest[];
    const answers = await Promise.all([asked].flat().map(node));
    const failed = answers.find(({ status }) => status !== 200);
    const bodies = answers.map(({ body }) => body);
    if (failed !== undefined) res.status(failed.status).json(failed.body);
    else res.json(Array.isArray(asked) ? bodies : bodies[0]);
  });
}

function parseOrder<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const read = schema.safeParse(input);
  if (read.success) return read.data;
  const detail = z.prettifyError(read.error);
  throw AppError.public("request.malformed", detail, { cause: read.error });
}
