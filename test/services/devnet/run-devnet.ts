import { runDevnet } from "../../../services/devnet/main.ts";

process.exit(await runDevnet({ env: process.env, pretty: false, blockTimeMs: 50 }));
