if(TRUNKLINE_SANITIZE)
  add_compile_options(-fsanitize=${TRUNKLINE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(TRUNKLINE_SANITIZE MATCHES "address.*undefined")
    # AddressSanitizer stops at what these find; they take a fifth of clang's time.
    add_compile_options(-fno-sanitize=null,object-size,vptr,pointer-overflow)
  endif()
  add_link_options(-fsanitize=${TRUNKLINE_SANITIZE})
endif()
