# The player's module: the folders that check and simulate plans, compiled to WebAssembly. It is a
# part of tutorials/player.html, from which every build takes it; where emscripten is, the target
# plangrad_player_module makes ${module}/player.js anew, in about a minute of one core, and
# tutorials/player.sh puts that into the page.
set(module ${PROJECT_BINARY_DIR}/player)
set(module_code ${PROJECT_SOURCE_DIR}/examples/pages/player/wasm)
set(shims ${module_code}/shims)
find_program(EMXX em++)
find_program(NODE NAMES node nodejs)  # which em++ needs, too

# One source a folder: reading headers takes longer than compiling a file.
set(batches "")
foreach(folder parallel/plan parallel/schedules parallel/lowering parallel/verifier
               parallel/simulation parallel/collectives parallel/codecs parallel/drawing wasm)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  if(folder STREQUAL "parallel/codecs")  # kinds of codecs, not what encodes
    list(FILTER sources EXCLUDE REGEX "/message_codec\\.cpp$")
  elseif(folder STREQUAL "parallel/collectives")  # lists, not what runs them
    list(FILTER sources EXCLUDE REGEX "/collective_run\\.cpp$")
  elseif(folder STREQUAL "parallel/drawing")
    list(FILTER sources INCLUDE REGEX "/(figure|palette)\\.cpp$")
  elseif(folder STREQUAL "wasm")
    file(GLOB sources CONFIGURE_DEPENDS player/*.cpp player/wasm/*.cpp plan_facts.cpp
         fact_words.cpp breakdown_words.cpp time_steps.cpp)
    list(FILTER sources EXCLUDE REGEX "page[^/]*\\.cpp$")
    list(APPEND sources ${PROJECT_SOURCE_DIR}/autograd/error.cpp)
  endif()
  list(TRANSFORM sources REPLACE "(.+)" "#include \"\\1\"\n")
  string(CONCAT sources ${sources})
  string(REPLACE "/" "_" batch ${folder})
  file(CONFIGURE OUTPUT ${module}/${batch}.cpp CONTENT "${sources}")
  list(APPEND batches ${module}/${batch}.cpp)
endforeach()

if(EMXX AND NODE)
  # Libraries that are headers alone lie in a folder where all headers of this machine do, which are
  # not for WebAssembly.
  find_path(FMT_INCLUDE fmt/format.h REQUIRED)
  find_path(JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  file(MAKE_DIRECTORY ${module}/include)
  file(CREATE_LINK ${FMT_INCLUDE}/fmt ${module}/include/fmt SYMBOLIC)
  file(CREATE_LINK ${JSON_INCLUDE}/nlohmann ${module}/include/nlohmann SYMBOLIC)
  set(flags -std=c++20 -w -fwasm-exceptions -DNDEBUG -DFMT_HEADER_ONLY -I${PROJECT_SOURCE_DIR}
            -isystem ${shims} -isystem ${module}/include -include ${shims}/missing.h)
  set(objects "")
  foreach(batch ${batches})
    set(optimize -O2)  # five times as fast as -Os, which is for what each plan passes once
    if(batch MATCHES "(codecs|schedules|lowering|drawing)\\.cpp$")
      set(optimize -Os)
    endif()
    string(REPLACE .cpp .o object ${batch})
    add_custom_command(OUTPUT ${object}
      COMMAND ${EMXX} ${flags} ${optimize} -c ${batch} -o ${object} -MD -MT ${object} -MF ${object}.d
      DEPENDS ${batch} ${shims}/missing.h DEPFILE ${object}.d
      COMMENT "Compiling ${batch} to WebAssembly" VERBATIM)
    list(APPEND objects ${object})
  endforeach()

  # -g1 leaves the JavaScript as it is: Debian's minifier fails with some versions of Node. A Node
  # that is not Debian's does not look for acorn, which em++ needs, where Debian's package has it.
  add_custom_command(OUTPUT ${module}/player.js BYPRODUCTS ${module}/module.js ${module}/module.wasm
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=$ENV{NODE_PATH}:/usr/share/nodejs
            ${EMXX} -Os -g1 -fwasm-exceptions ${objects} -o ${module}/module.js
            -sMODULARIZE -sEXPORT_NAME=plangradModule -sENVIRONMENT=web,worker,node
            -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB
            -sEXPORTED_FUNCTIONS=_player_answer,_malloc,_free --post-js ${module_code}/answer.js
    COMMAND ${NODE} ${module_code}/pack.js ${module}/module.js ${module}/module.wasm
            ${module}/player.js
    DEPENDS ${objects} ${module_code}/answer.js ${module_code}/pack.js
    COMMENT "Linking the plan player" VERBATIM)
  add_custom_target(plangrad_player_module DEPENDS ${module}/player.js)
endif()
