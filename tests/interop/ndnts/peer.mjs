// An NDNts application that obeys its standard input: one JSON document per line, answered by one.
//
//   {"do": "serve", "name": "/a", "version": 7, "text": "…", "chunk": 1000}
//   {"do": "fetch", "name": "/a"}        discovers the version by RDR metadata
//   {"do": "peek", "name": "/a/b"}
//   {"do": "join", "group": "/room", "node": "/alice"}     State Vector Sync, version 3
//   {"do": "publish", "text": "…"}       as that member
//   {"do": "hear"}                       the next update of another member, and what it says
//
// Usage: node peer.mjs (unix:/path | tcp:host:port | udp:host:port) [KEY]
//
// With KEY, the name of a new ECDSA key, it signs its registrations with that; its first line tells the public key.

import "./node20.mjs";

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

import { consume } from "@ndn/endpoint";
import { ECDSA, generateSigningKey } from "@ndn/keychain";
import { Version } from "@ndn/naming-convention2";
import { enableNfdPrefixReg } from "@ndn/nfdmgmt";
import { TcpTransport, UdpTransport, UnixTransport } from "@ndn/node-transport";
import { Name, digestSigning } from "@ndn/packet";
import { Metadata, retrieveMetadata, serveMetadata } from "@ndn/rdr";
import { BufferChunkSource, fetch, serve } from "@ndn/segmented-object";

import { Membership } from "./membership.mjs";

async function connect(address) {
  const [scheme, ...rest] = address.split(":");
  if (scheme === "unix") {
    return UnixTransport.createFace({}, rest.join(":"));
  }
  const [host, port] = rest;
  const transport = scheme === "tcp" ? TcpTransport : UdpTransport;
  return transport.createFace({}, { host, port: Number(port) });
}

// Whoever asked that a prefix be registered, by its name: NDNts registers in its own time.
const waiting = new Map();

function tellWhenRegistered(registration) {
  const advertise = registration.doAdvertise.bind(registration);
  registration.doAdvertise = async (name, state) => {
    await advertise(name, state);
    waiting.get(name.toString())?.resolve();
  };
}

/** Ask for word that a prefix is registered. */
function registrationOf(prefix) {
  const registered = Promise.withResolvers();
  waiting.set(prefix.toString(), registered);
  return registered.promise;
}

let membership;

const commands = {
  async serve({ name, version, text, chunk }) {
    const prefix = new Name(name);
    const versioned = prefix.append(Version, version);
    const registered = registrationOf(prefix);
    serve(versioned, new BufferChunkSource(Buffer.from(text), { chunkSize: chunk }), {
      signer: digestSigning,
      pOpts: { announcement: prefix },
    });
    serveMetadata(new Metadata(versioned), { prefix, signer: digestSigning });
    await registered;
    return { name: versioned.toString() };
  },

  async fetch({ name }) {
    const { name: versioned } = await retrieveMetadata(name, {
      retx: 3,
      verifier: digestSigning,
    });
    const content = await fetch(versioned, { verifier: digestSigning });
    return {
      name: versioned.toString(),
      size: content.length,
      sha256: createHash("sha256").update(content).digest("hex"),
    };
  },

  async peek({ name }) {
    const data = await consume(name, { retx: 2, verifier: digestSigning });
    return { name: data.name.toString(), text: Buffer.from(data.content).toString() };
  },

  async join({ group, node }) {
    const registered = registrationOf(new Name(group));
    membership = await Membership.join(group, node);
    await Promise.all([registered, registrationOf(membership.prefix)]);
    return {};
  },

  async publish({ text }) {
    return { name: membership.publish(text).toString() };
  },

  async hear() {
    return membership.hear();
  },
};

const [address, key] = process.argv.slice(2);
const face = await connect(address);
// Its node is on this machine, which NDNts does not notice over UDP: /localhost is open to it.
face.attributes.local = true;
const [signer, verifier] = key ? await generateSigningKey(key, ECDSA) : [digestSigning];
tellWhenRegistered(enableNfdPrefixReg(face, { signer }));
console.log(JSON.stringify({ ready: true, spki: Buffer.from(verifier?.spki ?? []).toString("hex") }));

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    console.log(JSON.stringify(await commands[command.do](command)));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
process.exit(0);
