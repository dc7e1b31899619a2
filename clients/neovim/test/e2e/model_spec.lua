---Once with a real model: the embedded one (`pi-rpc local install`), without a script, a key or a network.
test("a real model reads a file with a tool and answers in the chat", function(t)
  t:write("README.md", "# Pump station\n\nThe main valve is red.\n")
  t:daemon({}, { session = { model = "local/smollm2-135m" } })
  require("pi.config").get().env.PI_RPC_SCRIPT = nil
  local session = t:session()
  require("pi.chat").open(session, { layout = "right" })
  local events = t:events(session)
  local run
  session:prompt("Read the file README.md please.", nil, function(err, result)
    run = err or result
  end)
  t.ok(
    vim.wait(120000, function()
      return run ~= nil
    end, 20),
    "the model did not answer in time"
  )
  t.eq(run.stopReason, "stop", vim.inspect(run))
  local call = vim.iter(events):find(function(event)
    return event.type == "tool_execution_end"
  end)
  t.eq(call.toolName, "read")
  t.eq(call.isError, false)
  t.match(call.result.content[1].text, "The main valve is red")
  t.eq(session.state.model.id, "smollm2-135m")
  t.ok(session.state.contextUsage.tokens > 0)
  local drawn = t.wait("the answer to be drawn", function()
    for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
      local text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
      if vim.b[buffer].pi_session == session.key and text:find("read README.md", 1, true) then
        return text
      end
    end
  end)
  t.match(drawn, "Read the file README%.md please%.")
end)
