// pi's model layer, driven as layer_client.py drives ours. The argument is the folder of pi-ai.

import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { streamSimple } = await import(pathToFileURL(join(process.argv[2], "dist/compat.js")));

for await (const line of createInterface({ input: process.stdin })) {
	const { api, baseUrl } = JSON.parse(line);
	const model = {
		id: "benchmark",
		name: "benchmark",
		api,
		provider: "bench",
		baseUrl,
		reasoning: false,
		input: ["text"],
		cost: { input: 1, output: 2, cacheRead: 0.1, cacheWrite: 1.25 },
		contextWindow: 1000000,
		maxTokens: 100000,
	};
	const context = { messages: [{ role: "user", content: "go", timestamp: 1 }] };
	let deltas = 0;
	const before = process.cpuUsage();
	const stream = streamSimple(model, context, { apiKey: "none" });
	for await (const event of stream) {
		if (event.delta !== undefined) deltas += 1;
	}
	const message = await stream.result();
	const used = process.cpuUsage(before);
	const { stopReason, errorMessage } = message;
	const cpu = (used.user + used.system) / 1e6;
	console.log(JSON.stringify({ cpu, deltas, stopReason, error: errorMessage }));
}
